"""Arguments that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Location = Annotated[str, typer.Argument(help="The job's checkpointLocation, a folder or a URI.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for the job.", min=0.1)]
