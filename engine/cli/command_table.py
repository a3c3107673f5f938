"""Every command: what is typed, the module under `commands` that does it, and what help says of it.

A command `x` is the function `x_command` of its module, unless another is named after a colon. A row without a module
is a group. Modules are imported when their command is run.
"""

from __future__ import annotations

from typing import Any

from cyclopts import App, Group

COMMANDS = (
    ("init", "setup.init", "Create a project in a folder: settings and a first tool."),
    ("exec", "exec", "Run Python, JavaScript or TypeScript in the sandbox."),
    ("shell", "shell.command", "Type code over this project's tools, in one session."),
    ("serve", "serve", "Serve this project to MCP clients over stdio or HTTP."),
    ("console", "console", "Open a local web page of this project: runs, approvals, tools."),
    ("install", "setup.install", "Add this project's server to an MCP client."),
    ("uninstall", "setup.install", "Remove this project's server from an MCP client."),
    ("run", "run", "Run a task, or a plan of tasks, with an agent, a command or the sandbox."),
    ("plan", "", "Check and draw plans of tasks."),
    ("plan check", "plans", "Check a plan before anything runs."),
    ("plan graph", "plans", "Draw which task waits for which."),
    ("ps", "executions.listing", "List this project's executions, newest first."),
    ("status", "executions.looking", "Show one execution: status, steps and cost."),
    ("output", "executions.looking", "Print what an execution, or one of its steps, came to."),
    ("interrupt", "executions.resuming", "Stop an execution, even in another process."),
    ("resume", "executions.resuming", "Resume an interrupted, paused or failed execution."),
    ("logs", "executions.journal", "Show what an execution has done, line by line."),
    ("approve", "executions.resuming", "Approve calls that wait for approval."),
    ("reject", "executions.resuming", "Reject calls that wait for approval."),
    ("checkpoint", "executions.resuming", "Add a checkpoint to an execution."),
    ("context", "context", "Show how full an execution's context is, and its summaries."),
    ("summarize", "context", "Summarise an execution's results so far."),
    ("loop", "loops", "Repeat a task until a check passes."),
    ("budget", "project", "Show what was spent, and the limits."),
    ("trust", "project", "Allow a project to start the programs its configuration names."),
    ("doctor", "project", "Check this machine and this project for problems."),
    ("grant", "servers.editing", "Let code call tools of servers and APIs."),
    ("revoke", "servers.editing", "Stop granting tools."),
    ("server", "", "Add, list, ask and remove MCP servers and HTTP APIs."),
    ("server add", "servers.editing", "Add a server or an API to this project."),
    ("server import", "servers.importing", "Add the MCP servers that other clients have already."),
    ("server list", "servers.asking", "List the servers, their state, and how many of their tools are granted."),
    ("server tools", "servers.asking", "List a server's tools."),
    ("server refresh", "servers.asking", "Ask servers for their tools again, and tell what has changed."),
    ("server login", "servers.logins", "Log in to a server with a browser."),
    ("server logout", "servers.logins", "Forget a server's login."),
    ("server remove", "servers.editing", "Remove a server or an API from this project."),
    ("stubs", "authoring.stubs", "Print typed stubs of the tools, or a Python client module."),
    ("worker", "fleet.worker", "Run what others of this project's fleet send."),
    ("fleet", "", "One project on several machines, with one Postgres."),
    ("fleet init", "fleet.setting_up", "Make the fleet's tables, and say what was done."),
    ("fleet doctor", "fleet.setting_up", "Check the way to the fleet: server, rights, key, versions."),
    ("fleet status", "fleet.looking", "Show workers, queues, and what waits and why."),
    ("fleet drain", "fleet.looking", "Have a worker take nothing more, and end once it is done."),
    ("fleet push", "fleet.tools", "Give the fleet the composed tools of this folder."),
    ("fleet pull", "fleet.tools", "Bring the composed tools of this folder up to date."),
    ("workflow", "", "Run named workflows: steps with wait points and a history."),
    ("workflow start", "workflows", "Start a workflow from its file."),
    ("workflow status", "workflows", "Show the status of workflows."),
    ("workflow approve", "workflows", "Continue after a wait point, or retry the failed step."),
    ("workflow cancel", "workflows", "Cancel a workflow."),
    ("executions", "", "Manage the record of all executions."),
    ("executions reindex", "executions.records", "Rebuild the index from the executions' folders."),
    ("executions prune", "executions.records", "Remove old executions that can't be resumed."),
    ("executions totals", "executions.records", "Show totals by runtime, model, role, strategy, tool or day."),
    ("config", "", "Show, change and check this project's settings."),
    ("config show", "settings", "Show the settings in force, and where each comes from."),
    ("config check", "settings", "Report every problem in this project's settings and files."),
    ("config get", "settings", "Print one setting's value."),
    ("config set", "settings", "Change one setting in this project's file."),
    ("config edit", "settings", "Open this project's settings in your editor, and check them."),
    ("config schema", "settings", "Print the JSON schema of the settings, for editors."),
    ("completion", "", "Set up shell completion for bash, zsh or fish."),
    ("completion bash", "completion", "Print the completion script for bash."),
    ("completion zsh", "completion", "Print the completion script for zsh."),
    ("completion fish", "completion", "Print the completion script for fish."),
    ("completion install", "completion", "Install completion for a shell."),
    ("completion show", "completion", "Print the completion script."),
    ("image", "", "Manage guest images: the Python that runs in the sandbox."),
    ("image list", "image", "List the images in the cache, newest first."),
    ("image info", "image", "Show one image."),
    ("image build", "image", "Build this folder's image now."),
    ("image prune", "image", "Remove unused images."),
    ("tool", "", "Write, test, run and share composed tools."),
    ("tool list", "tool", "List the composed tools of this project and of your user."),
    ("tool show", "tool", "Show a tool's interface or source."),
    ("tool new", "authoring.drafts", "Begin a composed tool: a draft with comments and an example."),
    ("tool edit", "authoring.drafts", "Edit a tool in your editor; it is checked, tested and saved."),
    ("tool add", "tool_files", "Check a tool's file, run its examples, and save it."),
    ("tool run", "tool", "Run a tool once, per line of stdin, or over all of stdin."),
    ("tool call", "tool", "Call any granted tool: of a server, an API, or a composed one."),
    ("tool test", "tool:examples", "Run the tools' examples."),  # pytest would collect a test_command
    ("tool record", "authoring.examples", "Run a tool for real, and add its calls and result as an example."),
    ("tool diff", "authoring.pages", "Compare two versions of a tool."),
    ("tool docs", "authoring.pages", "Print a Markdown page of all tools."),
    ("tool history", "tool", "List a tool's versions."),
    ("tool rollback", "tool", "Restore an earlier version."),
    ("tool rm", "tool", "Remove a tool; its versions stay in the history."),
    ("tool export", "tool_files", "Write tools to stdout as one JSON document."),
    ("tool import", "tool_files", "Add tools from an export, or from JSON files of the older form."),
    ("tool save", "tool_files", "Make the code of an execution a composed tool."),
    ("tool suggest", "tool_files", "Propose tools from code that was run repeatedly."),
    ("tool learn", "tool", "Learn a tool's output schema from past results."),
    ("tool search", "tool", "Search the tools of this project, granted or not."),
)

# What help shows together, in this order. A command that is in none is in the last.
GROUPS = {
    "Run code and tools": "exec shell tool stubs",
    "Executions": "ps status output logs resume interrupt approve reject checkpoint executions console",
    "Tools and servers": "server grant revoke serve install uninstall",
    "Agents": "run plan loop workflow context summarize budget fleet worker",
    "Project": "init config trust",
    "Machine": "doctor image completion",
}


def register(app: App) -> None:
    """Add every command and group of the table to *app*."""
    groups: dict[str, App] = {"": app}
    panels: dict[str, Group] = {}
    for at, (title, names) in enumerate(GROUPS.items()):
        panels.update(dict.fromkeys(names.split(), Group(title, sort_key=at)))
    for typed, module, about in COMMANDS:
        group, _, name = typed.rpartition(" ")
        panel: dict[str, Any] = {"group": panels.get(name, panels["doctor"])} if not group else {}
        if not module:
            groups[name] = App(name=name, help=about, group_commands=Group("Commands", sort_key=1), **panel)
            groups[group].command(groups[name])
            continue
        file, _, function = module.partition(":")
        place = f"go_ent.engine.cli.commands.{file}:{function or name}_command"
        groups[group].command(place, name=name, help=about, **panel)
