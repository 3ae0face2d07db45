"""Takes reports on and leaves their calls open, as examples/async-tools/worker.mjs does: the answer comes later, from
another program, by the id of the call."""

import json
import os
from datetime import timedelta
from pathlib import Path

from trunkline_worker import Call, Handler, parsed


def tools() -> dict[str, Handler]:
    return {"reports.render": render}


@parsed
async def render(call: Call, value: dict) -> None:
    call_id, month = call.claim.call_id, value["month"]
    # First the job, then the deferral: a crash between the two only takes the job on again.
    save_job({"callId": call_id, "attempt": call.claim.attempt, "month": month})
    await call.defer(call.new_token(), timedelta(hours=1))
    print(f"took on the report of {month}  (call {call_id}, left open)", flush=True)


def save_job(job: dict) -> None:
    """Keeps a job; again, for a call that is tried again, it replaces the one before."""
    folder = Path(os.environ["JOBS_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{job['callId'].replace('/', '-')}.job.json"
    # In place at once: whoever lists the folder sees whole files.
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(job), "utf-8")
    draft.rename(file)
