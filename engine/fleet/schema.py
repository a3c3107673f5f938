"""The fleet's tables, and making them."""

from __future__ import annotations

from psycopg import Connection

from go_ent.composer.errors import ConfigError
from go_ent.engine.fleet.database import Database

VERSION = 1
OLDEST_SERVER = 130_000  # Postgres 13

TABLES = (
    # Processes that hold executions. One lives as long as its session has its advisory lock.
    """create table $.members (id integer generated always as identity primary key, name text not null,
      host text not null, process text not null, kind text not null, info jsonb not null default '{}',
      since timestamptz not null default now(), suspect timestamptz, dead timestamptz,
      draining boolean not null default false)""",
    # The record of an execution, or of one step of it that runs elsewhere (`execution/step`), and who has it. Each new
    # owner has a higher epoch; what is written with an older one is refused.
    """create table $.slots (id text collate "C" primary key, owner integer, epoch bigint not null default 0,
      process text not null default '', seq bigint not null default 0, size bigint not null default 0,
      packed boolean not null default false, queued boolean not null default false,
      interrupt boolean not null default false, mark bytea, made timestamptz not null default now())""",
    "create index slots_of on $.slots (owner) where owner is not null",
    # Lines of a journal as they were written together; `start` is where they begin in it.
    """create table $.lines (slot text not null references $.slots on delete cascade, start bigint not null,
      data bytea not null, primary key (slot, start))""",
    "alter table $.lines alter column data set storage external",
    """create table $.attachments (slot text not null references $.slots on delete cascade, kind text not null,
      name text not null, data bytea not null, primary key (slot, kind, name))""",
    # The index of executions.
    """create table $.executions (id text collate "C" primary key references $.slots on delete cascade, parent text,
      kind text not null, status text not null, title text not null, strategy text not null, created float8 not null,
      updated float8 not null, finished float8, spent_usd float8, spent_tokens bigint not null, image text not null,
      resumable boolean not null, client text not null, seq bigint not null)""",
    "create index executions_by_status on $.executions (status, id)",
    "create index executions_by_end on $.executions (right(id, 8))",
    "create index executions_by_kind on $.executions (kind, id)",
    "create index executions_by_parent on $.executions (parent, id) where parent is not null",
    "create index executions_by_client on $.executions (client, id) where client <> ''",
    "create index executions_by_image on $.executions (image) where resumable",
    """create table $.tries (execution text not null references $.slots on delete cascade, number integer not null,
      runtime text, model text, role text, strategy text, tool text, day text not null, success integer not null,
      tokens bigint, cost_usd float8, duration_ms bigint not null, at float8 not null,
      primary key (execution, number))""",
    "create index tries_at on $.tries (at)",
    """create table $.tool_calls (execution text not null references $.slots on delete cascade, tool text not null,
      calls bigint not null, failures bigint not null, ms float8 not null, at float8 not null,
      primary key (execution, tool))""",
    "create index tool_calls_at on $.tool_calls (at)",
    "create table $.turns (name text primary key, until timestamptz, done timestamptz)",
    # What was spent and what is held: as in SQLite; and what that comes to in each quarter of an hour, so that nothing
    # is added up while others wait.
    """create table $.spends (key text primary key, execution_id text not null, task_id text not null, runtime text,
      model text, role text, usd float8 check (usd >= 0), tokens bigint not null check (tokens >= 0),
      estimated boolean not null, tokens_estimated boolean not null, reserved_usd float8,
      reserved_tokens bigint not null, forced boolean not null, at float8 not null, client text not null)""",
    "create index spends_at on $.spends (at)",
    "create index spends_of on $.spends (execution_id, task_id)",
    """create table $.holds (key text primary key, execution_id text not null, task_id text not null,
      usd float8 check (usd >= 0), tokens bigint not null check (tokens >= 0), forced boolean not null,
      owner text not null, at float8 not null, client text not null)""",
    "create index holds_of on $.holds (execution_id, task_id)",
    """create table $.quarters (quarter integer not null, client text not null, shard integer not null,
      usd float8 not null, unknown bigint not null, tokens bigint not null, primary key (quarter, client, shard))""",
    # Composed tools: contents by digest, the versions of each name, and which one is current; none: it was removed.
    "create table $.tool_contents (digest text primary key, source text not null)",
    """create table $.tool_versions (name text not null, number integer not null,
      digest text not null references $.tool_contents, saved timestamptz not null default now(), by text not null,
      primary key (name, number))""",
    "create table $.tool_heads (name text primary key, number integer)",
    # Images of guests, by the digest that executions name, in pieces. The oldest of a key is the one that is used.
    """create table $.images (digest text primary key, key text not null, language text not null,
      packages text not null, size bigint not null, seal text not null, made timestamptz not null default now(),
      used timestamptz not null default now())""",
    "create index images_of on $.images (key, made)",
    """create table $.image_pieces (digest text not null references $.images on delete cascade, number integer not null,
      data bytea not null, primary key (digest, number))""",
    "alter table $.image_pieces alter column data set storage external",
    # Queues of work that needs environment variables, by their names.
    """create table $.needs (queue text primary key, kind text not null, label text, names text[] not null)""",
    "create table $.about (version integer not null)",
)


# What the ledger does within one statement, so that nobody waits for another's process while it has the lock. The
# figures are JSON: of accounts and of quarters of an hour, of holds and of spends.
FUNCTIONS = (
    """create or replace function $.add_up(figures jsonb, of_shard integer) returns void language sql as $$
      insert into $.quarters as q select f.quarter, f.client, of_shard, f.usd, f.unknown, f.tokens
      from jsonb_to_recordset(figures) as f(quarter integer, client text, usd float8, unknown bigint, tokens bigint)
      order by f.quarter, f.client
      on conflict (quarter, client, shard) do update set usd = q.usd + excluded.usd,
        unknown = q.unknown + excluded.unknown, tokens = q.tokens + excluded.tokens $$""",
    # All that is wanted is held, if it is all new and fits whole; else nothing is.
    """create or replace function $.hold_all(space text, accounts jsonb, wanted jsonb, figures jsonb, shard integer)
      returns boolean language plpgsql as $$ begin
      perform pg_advisory_xact_lock(hashtextextended(space, 1));
      if exists (select from jsonb_to_recordset(wanted) as w(key text) where
          exists (select from $.holds h where h.key = w.key) or exists (select from $.spends s where s.key = w.key))
        or exists (select from jsonb_to_recordset(accounts) as a(first integer, last integer, client text,
            execution text, task text, usd float8, tokens bigint, most_usd float8, most_tokens bigint, guess float8),
          lateral (select coalesce(sum(c.usd), 0) as usd, coalesce(sum(c.tokens), 0) as tokens from (
            select q.usd + q.unknown * a.guess as usd, q.tokens from $.quarters q where a.execution is null
              and q.quarter >= a.first and q.quarter < a.last and (a.client is null or q.client = a.client)
            union all select coalesce(s.usd, a.guess), s.tokens from $.spends s
              where s.execution_id = a.execution and (a.task is null or s.task_id = a.task)
            union all select coalesce(h.usd, a.guess), h.tokens from $.holds h
              where h.execution_id = a.execution and (a.task is null or h.task_id = a.task)) c) known
          where known.usd + a.usd > a.most_usd or known.tokens + a.tokens > a.most_tokens)
      then return false; end if;
      insert into $.holds select * from jsonb_to_recordset(wanted) as w(key text, execution_id text, task_id text,
        usd float8, tokens bigint, forced boolean, owner text, at float8, client text);
      perform $.add_up(figures, shard);
      return true; end $$""",
    """create or replace function $.count_all(spent jsonb, figures jsonb, shard integer) returns void
      language plpgsql as $$ begin
      insert into $.spends select * from jsonb_to_recordset(spent) as s(key text, execution_id text, task_id text,
        runtime text, model text, role text, usd float8, tokens bigint, estimated boolean, tokens_estimated boolean,
        reserved_usd float8, reserved_tokens bigint, forced boolean, at float8, client text)
      on conflict (key) do update set runtime = excluded.runtime, model = excluded.model, role = excluded.role,
        usd = excluded.usd, tokens = excluded.tokens, estimated = excluded.estimated,
        tokens_estimated = excluded.tokens_estimated;
      delete from $.holds h using jsonb_to_recordset(spent) as s(key text) where h.key = s.key;
      perform $.add_up(figures, shard); end $$""",
)


def server(database: Database, *, patience_s: float | None = None) -> str:
    """Which Postgres it is; `ConfigError` if it is too old."""
    query = b"select current_setting('server_version_num')::int"
    ((number,),) = database.run(lambda connection: connection.execute(query).fetchall(), patience_s=patience_s)
    said = f"Postgres {number // 10_000}.{number % 10_000}"
    if number < OLDEST_SERVER:
        raise ConfigError(f"{said} is too old: a fleet needs {OLDEST_SERVER // 10_000} or newer")
    return said


def init(database: Database) -> list[str]:
    """Make the tables, if they are not there; what was done, a line each. `ConfigError` where that can't be."""
    said = [server(database)]
    ((may, there),) = database.ask(
        "select has_database_privilege(current_database(), 'create'), to_regnamespace(%s) is not null",
        (database.address.namespace,),
    )
    name = database.address.namespace
    version = _version(database) if there else None
    if version is not None:
        check(database)
        database.run(lambda connection: _make_functions(database, connection))
        return [*said, f"the schema {name} is there, in version {version}"]
    if not may and not there:
        raise ConfigError(f"this user may not make the schema {name}: grant create on the database, or make it")

    def make(connection: Connection) -> None:
        with connection.transaction():
            connection.execute(f"create schema if not exists {name}".encode())
            for statement in TABLES:
                connection.execute(database.query(statement).encode())
            _make_functions(database, connection)
            connection.execute(database.query("insert into $.about values (%s)").encode(), (VERSION,))

    database.run(make)
    tables = sum(statement.startswith("create table") for statement in TABLES)
    return [*said, f"made the schema {name} with {tables} tables, in version {VERSION}"]


def _make_functions(database: Database, connection: Connection) -> None:
    with connection.transaction():
        for statement in FUNCTIONS:
            connection.execute(database.query(statement).encode())


def check(database: Database) -> None:
    """`ConfigError` if the tables are not there, or of another version."""
    version = _version(database)
    if version is None:
        raise ConfigError(f"the database has no schema {database.address.namespace} yet: run go-ent fleet init")
    if version != VERSION:
        which = "newer" if version > VERSION else "older"
        raise ConfigError(f"the fleet's tables are of a {which} go-ent (version {version}, this one uses {VERSION})")


def _version(database: Database) -> int | None:
    ((there,),) = database.ask("select to_regclass(%s) is not null", (f"{database.address.namespace}.about",))
    if not there:
        return None
    rows = database.ask("select version from $.about limit 1")
    return int(rows[0][0]) if rows else None
