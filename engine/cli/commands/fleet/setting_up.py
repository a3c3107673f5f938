"""`go-ent fleet init` and `fleet doctor`."""

from __future__ import annotations

from go_ent.composer.errors import ConfigError
from go_ent.engine.cli import SETUP_ERROR
from go_ent.engine.cli.commands.fleet.opening import configured
from go_ent.engine.cli.commands.shared import JsonFlag
from go_ent.engine.cli.terminal.output import say, show_json


def init_command(*, json_: JsonFlag = False) -> int:
    """Make the tables of this project's fleet in its Postgres, if they are not there, and say what was done. Needs a
    user who may create schemas; workers and clients need only use them.
    """
    _, config = configured()
    from go_ent.engine.fleet import schema
    from go_ent.engine.fleet.database import Address, Database
    from go_ent.engine.fleet.dbos_adapter import migrate, schema_of

    database = Database(Address.of(config.fleet))
    try:
        done = schema.init(database)
        migrate(database.address)
    except OSError as error:
        raise ConfigError(str(error.strerror)) from None
    finally:
        database.close()
    done.append(f"the queues' schema {schema_of(database.address)} is up to date")
    if json_:
        show_json({"done": done})
    for line in () if json_ else done:
        say(line)
    return 0


def doctor_command(*, json_: JsonFlag = False) -> int:
    """Check what a worker or a client of this machine needs: the server, its tables, the key, and who is there."""
    project, config = configured()
    from go_ent.engine.executions.resume_checks import own_version
    from go_ent.engine.fleet import schema
    from go_ent.engine.fleet.dbos_adapter import tells
    from go_ent.engine.fleet.opening import open_fleet

    checks: list[tuple[str, bool, str]] = []
    try:
        storage, _, _ = open_fleet(project, config.fleet)
    except ConfigError as error:
        checks.append(("settings", False, str(error)))
        return _tell(checks, json_=json_)
    has_key = config.fleet.key_env is not None
    said = (
        f"in ${config.fleet.key_env}" if has_key else "set key_env in [fleet]: workers run only what is sealed with it"
    )
    checks.append(("key", has_key, said))
    try:
        checks.append(("server", True, schema.server(storage.database, patience_s=0.0)))
        schema.check(storage.database)
        checks.append(("tables", True, f"in {storage.database.address.namespace}"))
        ((up_to_date,),) = storage.database.ask(tells(storage.database.address))
        older = "of an older go-ent, and are polled: run go-ent fleet init"
        checks.append(("queues", up_to_date, "tell of work and of ends" if up_to_date else older))
        workers = [one for one in storage.members.look() if one.kind == "worker" and one.alive]
        checks.append(("workers", bool(workers), f"{len(workers)}" if workers else "none: start go-ent worker"))
        mine = own_version()
        rows = storage.database.ask("select name, info->>'version' from $.members where kind = 'worker'")
        others = [f"{name} has {theirs}" for name, theirs in rows if theirs != mine]
        if others:
            checks.append(("versions", False, f"this is go-ent {mine}; {', '.join(others[:5])}"))
    except OSError as error:
        checks.append(("server", False, str(error)))
    except ConfigError as error:
        checks.append(("tables" if checks[-1][0] == "server" else "server", False, str(error)))
    finally:
        storage.close()
    return _tell(checks, json_=json_)


def _tell(checks: list[tuple[str, bool, str]], *, json_: bool) -> int:
    ok = all(good for _, good, _ in checks)
    if json_:
        show_json({"ok": ok, "checks": [{"name": name, "ok": good, "said": said} for name, good, said in checks]})
    for name, good, said in () if json_ else checks:
        say(f"{'ok  ' if good else 'FAIL'}  {name}: {said}")
    return 0 if ok else SETUP_ERROR
