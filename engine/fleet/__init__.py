"""One project on several machines: what keeps its things is Postgres. Imported only where `[fleet]` is configured."""
