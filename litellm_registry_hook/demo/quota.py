"""A quota probe without a subscription: prints the JSON that a real probe command would.

python -m litellm_registry_hook.demo.quota                            # five_hour and weekly
python -m litellm_registry_hook.demo.quota month.spend_usd=3.2        # dotted paths of your own
python -m litellm_registry_hook.demo.quota day.used_pct=5 day.resets_at=+3600     # +N: so many seconds from now
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta, timezone
from typing import Any

DEFAULT = ("five_hour.used_pct=12", "five_hour.resets_at=+7200", "weekly.used_pct=34")


def reading(pairs: tuple[str, ...], now: datetime) -> dict[str, Any]:
    """Build the answer from `dotted.path=value`; a value is a number, or `+N` for the moment in N seconds.

    Raises:
        ValueError: a pair without `=`, or a value that is no number.

    """
    answer: dict[str, Any] = {}
    for pair in pairs:
        path, _, value = pair.partition("=")
        *parents, last = path.split(".")
        place = answer
        for parent in parents:
            place = place.setdefault(parent, {})
        number = float(value)
        if value.startswith("+"):
            place[last] = (now + timedelta(seconds=number)).isoformat(timespec="seconds")
        else:
            place[last] = int(number) if number.is_integer() else number
    return answer


if __name__ == "__main__":
    given = tuple(sys.argv[1:]) or DEFAULT
    print(json.dumps(reading(given, datetime.now(timezone.utc))))  # noqa: T201
