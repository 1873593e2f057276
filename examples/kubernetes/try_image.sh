#!/usr/bin/env bash
# Puts into a folder what the Dockerfile puts into an image, and tries it: the job runs, is asked for its health, and is
# ended by SIGTERM.  No Docker is needed, but a Python that has what mixedmode depends on: PYTHON=… examples/kubernetes/try_image.sh
set -euo pipefail
python=$(command -v "${PYTHON:-python3}")
sources=$(cd "$(dirname "$0")/../.." && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/opt/job" "$root/data/lake" "$root/data/landing" "$root/src"
git -C "$sources" archive HEAD | tar x -C "$root/src"
"$python" -m pip wheel -q --no-deps --no-build-isolation -w "$root/dist" "$root/src"
"$python" -m pip install -q --no-deps --ignore-installed --prefix "$root/usr/local" "$root"/dist/*.whl
cp "$sources/examples/kubernetes/job.py" "$root/opt/job/"
cd "$root/opt/job"
export PYTHONPATH; PYTHONPATH=$(echo "$root"/usr/local/lib/python3*/site-packages)
export LAKE="$root/data/lake" LANDING="$root/data/landing" OUTPUT="$root/data/spending" LOCATION="$root/data/checkpoints"
export PYSPARK_PYTHON="$python"
"$python" - <<'PYTHON'
import datetime, os
import pyarrow as pa, pyarrow.parquet as pq

days = pa.array([datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 3)], pa.timestamp("us", "UTC"))
pq.write_table(pa.table({"customer": ["a", "b"], "ts": days, "amount": [1, 2]}), os.environ["LAKE"] + "/orders.parquet")
PYTHON
health() { "$python" "$root/usr/local/bin/mixedmode" status "$LOCATION" > "$root/status" 2>&1; }
"$python" job.py > "$root/log" 2>&1 &
job=$!
until health && grep -q '^checkpoint  *[0-9]' "$root/status"; do
    kill -0 "$job" 2> /dev/null || { cat "$root/log"; exit 1; }
    sleep 1
done
kill -TERM "$job"
wait "$job"
grep 'the job has ended' "$root/log"
health && code=0 || code=$?
[ "$code" = 3 ] && echo "the image's contents work: healthy (0) while the job ran, exit code 0 on SIGTERM, then status 3"
