// The search of the site runs in a web worker, and browsers start none where pages are opened as files.
// There a hidden iframe runs the worker's script instead, with what that script uses of a worker.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const scope = this.frame.contentWindow
      const load = source => new Promise((loaded, failed) => {
        const script = scope.document.createElement("script")
        Object.assign(script, { src: source, onload: loaded, onerror: failed })
        scope.document.head.append(script)
      })
      scope.importScripts = (...sources) => sources.reduce((before, next) => before.then(() => load(next)), Promise.resolve())
      scope.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = load(new URL(url, location.href).href)
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
