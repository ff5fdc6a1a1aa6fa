"""The Redis transport: many machines, one server (or Sentinel, or Cluster), atomic scripts.

``docs/reference/redis.md`` says what it promises and how it is set up.
"""

from .options import Options, parse
from .transport import RedisTransport, from_url

__all__ = ["Options", "RedisTransport", "from_url", "parse"]
