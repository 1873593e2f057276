"""The commands that a supervisor gives a driver: JSON objects, one a line, each answered by one."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import Any

import process_tree


def serve(driver: object, replies: int) -> None:
    """Carry out commands until there is no more input; then the process ends.

    Args:
        driver: has a method for each command.
        replies: descriptor that takes the answers.
    """
    with open(replies, "w", encoding="utf-8", buffering=1) as out:
        out.write(json.dumps({"ok": "started"}) + "\n")
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] != "status":
                print(f"== {time.strftime('%X')} {line.strip()}", flush=True)
            answer: dict[str, Any] = {}
            try:
                answer["ok"] = getattr(driver, command.pop("do"))(**command)
            except Exception as error:
                print(traceback.format_exc(), flush=True)
                jvms = process_tree.find(os.getpid(), "jvm")
                answer = {"error": f"{type(error).__name__}: {str(error)[:2000]}", "jvm": bool(jvms)}
            out.write(json.dumps(answer, default=str) + "\n")
    os._exit(0)  # no need to wait for the JVM to say good-bye
