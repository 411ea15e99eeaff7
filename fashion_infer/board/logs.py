"""Writes logs to stderr, one line of JSON per record."""

import json
import logging
import sys
from datetime import datetime, timezone

# Attributes that every log record has; all others come from `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


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


def begin() -> None:
    """Write this process's logs to stderr; of Alembic and Ray, only warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for noisy in ("alembic", "ray"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
