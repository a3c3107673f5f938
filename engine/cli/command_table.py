"""Every command: what is typed, the module under `commands` that does it, and what help says of it.

A command `x` is the function `x_command` of its module, unless another is named after a colon. A row without a module
is a group. Modules are imported when their command is run.
"""

from __future__ import annotations

from cyclopts import App

COMMANDS = (
    ("init", "init", "Create a project in a folder: settings and a first tool."),
    ("exec", "exec", "Run Python code in the sandbox."),
    ("serve", "serve", "Serve this project to MCP clients over stdio or HTTP."),
    ("install", "install", "Add this project's server to an MCP client."),
    ("run", "run", "Run a task, or a plan of tasks, with an agent, a command or the sandbox."),
    ("ps", "executions", "List this project's executions, newest first."),
    ("status", "executions", "Show one execution: status, steps and cost."),
    ("interrupt", "executions", "Stop an execution, even in another process."),
    ("resume", "executions", "Resume an interrupted, paused or failed execution."),
    ("logs", "executions", "Show an execution's journal."),
    ("approve", "executions", "Approve calls that wait for approval."),
    ("reject", "executions", "Reject calls that wait for approval."),
    ("checkpoint", "executions", "Add a checkpoint to an execution."),
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
    ("server list", "servers.asking", "List the servers, their state, and how many of their tools are granted."),
    ("server tools", "servers.asking", "List a server's tools."),
    ("server refresh", "servers.asking", "Ask servers for their tools again, and tell what has changed."),
    ("server login", "servers.logins", "Log in to a server with a browser."),
    ("server logout", "servers.logins", "Forget a server's login."),
    ("server remove", "servers.editing", "Remove a server or an API from this project."),
    ("workflow", "", "Run named workflows: steps with wait points and a history."),
    ("workflow start", "workflows", "Start a workflow from its file."),
    ("workflow status", "workflows", "Show the status of workflows."),
    ("workflow approve", "workflows", "Continue after a wait point, or retry the failed step."),
    ("workflow cancel", "workflows", "Cancel a workflow."),
    ("executions", "", "Manage the record of all executions."),
    ("executions reindex", "records", "Rebuild the index from the executions' folders."),
    ("executions prune", "records", "Remove old executions that can't be resumed."),
    ("executions totals", "records", "Show totals by runtime, model, role, strategy, tool or day."),
    ("config", "", "Show and check this project's settings."),
    ("config show", "settings", "Show the settings in force, and where each comes from."),
    ("config check", "settings", "Report every problem in this project's settings and files."),
    ("config schema", "settings", "Print the JSON schema of the settings, for editors."),
    ("completion", "", "Set up shell completion for bash, zsh or fish."),
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
    ("tool add", "tool_files", "Check a tool's file, run its examples, and save it."),
    ("tool run", "tool", "Run a tool once, per line of stdin, or over all of stdin."),
    ("tool call", "tool", "Call any granted tool: of a server, an API, or a composed one."),
    ("tool test", "tool:examples", "Run the tools' examples."),  # pytest would collect a test_command
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


def register(app: App) -> None:
    """Add every command and group of the table to *app*."""
    groups: dict[str, App] = {"": app}
    for typed, module, about in COMMANDS:
        group, _, name = typed.rpartition(" ")
        if not module:
            groups[name] = App(name=name, help=about)
            groups[group].command(groups[name])
            continue
        file, _, function = module.partition(":")
        groups[group].command(f"go_ent.engine.cli.commands.{file}:{function or name}_command", name=name, help=about)
