"""Writes logs to stderr: warnings as text, or on request all records as lines of JSON."""

import json
import logging
import sys
import time
from datetime import datetime, timezone
from typing import Dict, Tuple

# Attributes that every log record has; all others come from `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_LINES = 60  # largest number of warnings of a kind, and of kinds, that are logged per minute


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        more = ", ".join(f"{name} {value}" for name, value in vars(record).items() if name not in _STANDARD)
        text = f"fashion-infer: {record.levelname.lower()}: {record.getMessage()}{f' ({more})' if more else ''}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonLines(logging.Formatter):
    """Formats a log record as one line of JSON with the fields at, level, from and message, and those of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "at": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage(),
        }
        said.update({name: value for name, value in vars(record).items() if name not in _STANDARD})
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


class FewLines(logging.Filter):
    """Lets through a bounded number of warnings of a kind per minute, so that refused requests do not fill a disk."""

    def __init__(self) -> None:
        super().__init__()
        self._minute = 0
        self._seen: Dict[Tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        minute, kind = int(time.monotonic() / 60), (record.name, str(record.msg))
        if minute != self._minute:
            self._minute, self._seen = minute, {}
        if record.levelno < logging.WARNING:
            return True
        self._seen[kind] = self._seen.get(kind, 0) + 1
        return self._seen[kind] <= _LINES and len(self._seen) <= _LINES


def begin(as_json: bool) -> None:
    """Write this process's logs to stderr; only warnings and errors of Alembic and Ray, and of all others as text."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else TextLines())
    handler.addFilter(FewLines())
    logging.basicConfig(level=logging.INFO if as_json else logging.WARNING, handlers=[handler], force=True)
    for noisy in ("alembic", "ray"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
