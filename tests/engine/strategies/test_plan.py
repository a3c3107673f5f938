"""Plan files and the references in them."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.engine.core.errors import BadTask
from go_ent.engine.core.models import BudgetLimit, RunResult
from go_ent.engine.strategies import Plan, PlanTask, parse_plan, read_plan
from go_ent.engine.strategies.plan import MAX_BYTES
from go_ent.engine.strategies.references import filled, references
from tests.support import ROOT
from tests.support.rows import each

GUIDE = ROOT / "docs" / "guides" / "plans.md"
EXAMPLE = """
[[task]]
id = "load"
command = ["python3", "load.py"]          # cli runner, argv
[[task]]
id = "clean"
depends_on = ["load"]
tool = "clean_rows"                        # a composed tool, in the sandbox
inputs = { rows = "${load.output}" }
[[task]]
id = "report"
depends_on = ["clean"]
prompt = "Write the report for: ${clean.output}"   # an agent
role = "developer"
runtime = "claude-code"
budget = { usd = 0.50 }
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def tasks(*given: dict[str, Any]) -> dict[str, Any]:
    return {"task": [{"description": "x", **task} for task in given]}


class TestReading:
    def test_toml_and_json_say_the_same(self, tmp_path: Path) -> None:
        plan = read_plan(written(tmp_path, "plan.toml", EXAMPLE))
        assert [task.id for task in plan.task] == ["load", "clean", "report"]
        assert plan.task[0].command == ("python3", "load.py")
        assert plan.task[1].tool == "clean_rows"
        assert plan.task[2].description == "Write the report for: ${clean.output}"
        assert plan.task[2].budget == BudgetLimit(usd=0.5)
        assert read_plan(written(tmp_path, "plan.json", json.dumps(tomllib.loads(EXAMPLE)))) == plan
        assert read_plan(written(tmp_path, "plan", json.dumps(tomllib.loads(EXAMPLE)))) == plan
        assert read_plan(written(tmp_path, "other", "\ufeff" + EXAMPLE)) == plan

    def test_the_whole_plan_may_have_a_name_a_concurrency_and_a_budget(self) -> None:
        plan = parse_plan({"name": "nightly", "concurrency": 3, "budget": {"usd": 2}, **tasks({"id": "a"})})
        assert (plan.name, plan.concurrency, plan.budget) == ("nightly", 3, BudgetLimit(usd=2))

    @pytest.mark.parametrize(
        ("name", "text", "said"),
        [
            ("p.toml", "[[task]\n", r"p\.toml is not valid TOML: .*line 1"),
            ("p.json", '{"task": [', r"p\.json is not valid JSON: .*line 1"),
            ("p.json", '{"task": [], "task": []}', r"p\.json is not valid JSON: task is given twice"),
            ("p.json", '{"task": [{"id": "a", "prompt": "x", "metadata": {"n": NaN}}]}', "NaN is not JSON"),
            ("p.json", "[" * 100_000, r"p\.json is not valid JSON"),
            ("p.toml", "x = " + "[" * 100_000, r"p\.toml is not valid TOML"),
            ("p.toml", "", r"p\.toml: a plan is a list of \[\[task\]\] tables: it is required"),
            ("p.toml", "task = []", r"p\.toml: a plan is a list of \[\[task\]\] tables: .*at least 1"),
            ("p.toml", '[[task]]\nprompt = "x"', r"p\.toml: task 1: id: it is required"),
            ("p.toml", '[[task]]\nid = "a"', r"p\.toml: task 1 \(a\): a task needs a description"),
            ("p.toml", '[[task]]\nid = "a"\nprompt = "x"\nretries = 11', r"p\.toml: task 1 \(a\): retries: .* 10"),
            ("p.toml", '[[task]]\nid = "a b"\nprompt = "x"', r"p\.toml: task 1 \(a b\): id: "),
            (
                "p.toml",
                '[[task]]\nid = "a"\nprompt = "x"\nneeds = ["b"]',
                r"p\.toml: task 1 \(a\): needs: there is no such setting",
            ),
            (
                "p.toml",
                'title = "x"\n[[task]]\nid = "a"\nprompt = "x"',
                r"title: there is no such setting; a plan has version, name, ",
            ),
            ("p.toml", 'nam = "x"\n[[task]]\nid = "a"\nprompt = "x"', r"nam: .* setting; did you mean name\?"),
            ("p.toml", '[[task]]\nid = "a"\nprompt = "x"\ntitle = "x"', r"\(a\): title: there is no such setting$"),
            ("p.toml", '[[task]]\nid = "a"\nprompt = "x"\nmutex = "db"', r"p\.toml: task 1 \(a\): mutex: "),
            (
                "p.toml",
                '[[task]]\nid = "a"\nprompt = "x"\ntype = "chore"',
                r"task 1 \(a\): type: .*'feature', 'bugfix'",
            ),
            ("p.toml", 'concurrency = 0\n[[task]]\nid = "a"\nprompt = "x"', r"p\.toml: concurrency: "),
            (
                "p.toml",
                '[[task]]\nid = "a"\nprompt = "x"\nstrategy = "multi"',
                r"task 1 \(a\): strategy: a task of a plan is one step",
            ),
        ],
    )
    def test_an_error_names_the_file_the_task_and_the_field(
        self, tmp_path: Path, name: str, text: str, said: str
    ) -> None:
        with pytest.raises(BadTask, match=said):
            read_plan(written(tmp_path, name, text))

    def test_what_cannot_be_read_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BadTask, match="can't be read: No such file"):
            read_plan(tmp_path / "none.toml")
        with pytest.raises(BadTask, match="can't be read: Is a directory"):
            read_plan(tmp_path)
        with pytest.raises(BadTask, match=f"larger than {MAX_BYTES} bytes"):
            read_plan(written(tmp_path, "large.toml", "#" * (MAX_BYTES + 1)))
        (tmp_path / "latin.toml").write_bytes(b"# \xe9")
        with pytest.raises(BadTask, match="not UTF-8"):
            read_plan(tmp_path / "latin.toml")

    @pytest.mark.parametrize(
        "data", [None, [], "x", {"task": 3}, {"task": ["x"]}, {"task": [None]}, {"task": {"id": "a"}}]
    )
    def test_data_of_another_shape_is_refused(self, data: Any) -> None:
        with pytest.raises(BadTask):
            parse_plan(data)


class TestGraphs:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ([{"id": "a"}, {"id": "b"}, {"id": "a"}], "there are several tasks with the id a"),
            (
                [{"id": "a", "depends_on": ["z"]}, {"id": "b"}],
                "task a: depends_on: there is no task z; there are: a, b",
            ),
            (
                [{"id": "a", "prompt": "${z.output}"}],
                r"task a: description: \$\{z\.output\} names no task; there are: a",
            ),
            ([{"id": "a", "depends_on": ["a"]}], "task a: it depends on itself"),
            ([{"id": "a", "prompt": "${a.output}"}], "task a: it depends on itself"),
            ([{"id": "a", "depends_on": ["b"]}, {"id": "b", "depends_on": ["a"]}], "in a circle: a → b → a$"),
            (
                [
                    {"id": "x", "depends_on": ["c"]},
                    {"id": "c", "prompt": "${a.output}"},
                    {"id": "a", "depends_on": ["b"]},
                    {"id": "b", "depends_on": ["c"]},
                ],
                "in a circle: c → a → b → c$",
            ),
        ],
    )
    def test_duplicates_unknown_ids_and_circles_are_refused_up_front(
        self, given: list[dict[str, Any]], said: str
    ) -> None:
        with pytest.raises(BadTask, match=said):
            parse_plan({"task": [{"prompt": "x", **task} for task in given]})

    def test_a_long_circle_is_named_in_short(self) -> None:
        given = [{"id": f"t{number}", "depends_on": [f"t{(number + 1) % 500}"]} for number in range(500)]
        with pytest.raises(BadTask, match=r"t0 → t1 → .* → … → .* → t499 → t0$") as error:
            parse_plan(tasks(*given))
        assert len(str(error.value)) < 400

    def test_a_reference_is_a_dependency(self) -> None:
        plan = parse_plan(
            tasks(
                {"id": "a"}, {"id": "b", "context": "${a.output}"}, {"id": "c", "inputs": {"x": [{"y": "${b.output}"}]}}
            )
        )
        assert plan.needs == ((), (0,), (1,))


def result(output: str = "", structured: Any = None) -> RunResult:
    return RunResult(execution_id="e", status="completed", output=output, structured=structured)


RESULTS = {
    "text": result("plain text"),
    "json": result('{"rows": [{"n": 1}, {"n": "two"}], "": 0}'),
    "tool": result("printed", {"rows": [1, 2]}),
    "silent": result("", [1]),
    "a.b": result("dotted"),
    "option": result("-rf"),
    "evil": result('${text.output} composed:x {"a": 1}'),
    "empty": result(""),
    "nan": result("NaN"),
}


def value(template: Any) -> Any:
    return filled(PlanTask(id="t", tool="x", inputs={"v": template}), RESULTS).inputs["v"]


def text(template: str) -> str:
    return filled(PlanTask(id="t", description=template), RESULTS).description


class TestReferences:
    @each(
        ("template", "expected"),
        [
            ("${text.output}", "plain text"),
            ("${json.output}", {"rows": [{"n": 1}, {"n": "two"}], "": 0}),
            ("${json.output.rows}", [{"n": 1}, {"n": "two"}]),
            ("${json.output.rows.0.n}", 1),
            ("${json.output.rows.1.n}", "two"),
            ("${tool.output}", {"rows": [1, 2]}),
            ("${tool.output.rows.1}", 2),
            ("${tool.structured.rows}", [1, 2]),
            ("${ tool.structured.rows }", [1, 2]),
            ("${a.b.output}", "dotted"),
            ("${nan.output}", "NaN"),
            ("${empty.output}", ""),
            (" ${json.output.rows.0.n}", " 1"),
            ("${json.output.rows.0.n}${json.output.rows.1.n}", "1two"),
            ("rows: ${tool.structured.rows}", "rows: [1, 2]"),
            ("$${text.output}", "${text.output}"),
            ("$${text.output} is ${text.output}", "${text.output} is plain text"),
            ("${evil.output}", '${text.output} composed:x {"a": 1}'),
            ("${HOME} and $5 and ${}", "${HOME} and $5 and ${}"),
            (
                {"a": ["${text.output}", {"b": "${json.output.rows.0.n}"}], "n": 3},
                {"a": ["plain text", {"b": 1}], "n": 3},
            ),
        ],
    )
    def test_in_inputs_a_whole_reference_keeps_its_type(self, template: Any, expected: Any) -> None:
        assert value(template) == expected

    @pytest.mark.parametrize(
        ("template", "expected"),
        [
            ("${tool.output}", "printed"),
            ("${silent.output}", "[1]"),
            ("${json.output.rows}", '[{"n": 1}, {"n": "two"}]'),
            ("Say: ${text.output}!", "Say: plain text!"),
            ("Explain $${text.output} and ${HOME}", "Explain ${text.output} and ${HOME}"),
            ("See ${evil.output}", 'See ${text.output} composed:x {"a": 1}'),
        ],
    )
    def test_in_a_description_it_is_text(self, template: str, expected: str) -> None:
        assert text(template) == expected

    @pytest.mark.parametrize(
        ("template", "said"),
        [
            ("${json.output.cols}", r"\$\{json\.output\.cols\}: there is no field cols; there are: rows"),
            ("${json.output.rows.7}", "there is no item 7; there are 2, counted from 0"),
            ("${json.output.rows.-1}", "list has no field -1"),
            ("${json.output.rows.0.n.x}", "int has no field x"),
            ("${text.output.x}", "the output of text is not JSON"),
            ("${nan.output.x}", "the output of nan is not JSON"),
            ("${text.structured}", "text gave no structured value"),
        ],
    )
    def test_a_field_that_is_not_there_is_the_failure_of_the_task(self, template: str, said: str) -> None:
        with pytest.raises(BadTask, match=said):
            value(template)
        with pytest.raises(BadTask, match=said):
            text(template)

    @pytest.mark.parametrize(
        ("template", "said"),
        [
            ("${text}", r"\$\{text\} is neither text\.output nor text\.structured; write \$\$\{text\}"),
            ("${text.ouput}", "is neither text.output nor text.structured"),
            ("${none.output}", "names no task"),
            ("${none.structured.x}", "names no task"),
            ("${text.output..x}", "empty name"),
        ],
    )
    def test_what_cannot_be_meant_is_refused_with_the_plan(self, template: str, said: str) -> None:
        with pytest.raises(BadTask, match=said):
            references(PlanTask(id="t", description=template), RESULTS)

    def test_of_ids_with_dots_the_longest_is_meant(self) -> None:
        both = {"a": result('{"output": 1}'), "a.output": result("longer")}
        task = PlanTask(id="t", tool="x", inputs={"v": "${a.output.output}", "w": "${a.output}"})
        assert filled(task, both).inputs == {"v": "longer", "w": {"output": 1}}

    def test_code_and_the_names_of_things_are_left_alone(self) -> None:
        task = PlanTask(id="t", code="print('${text.output}')", metadata={"x": "${text.output}"})
        assert filled(task, RESULTS) == task
        assert references(task, RESULTS) == ()

    def test_an_output_cannot_turn_a_task_into_another_kind(self) -> None:
        composed = {"a": result("composed:delete_all {}")}
        with pytest.raises(BadTask, match="which only the plan can ask for"):
            filled(PlanTask(id="t", description="${a.output}"), composed)
        with pytest.raises(BadTask, match="empty once its references are put in"):
            filled(PlanTask(id="t", description="${empty.output}"), RESULTS)

    def test_what_references_add_up_to_is_bounded(self) -> None:
        large = {"a": result("x" * 2_000_000)}
        with pytest.raises(BadTask, match="longer than 4000000 characters"):
            filled(PlanTask(id="t", description="${a.output}" * 3), large)
        with pytest.raises(BadTask, match="more than 16000000 characters"):
            filled(PlanTask(id="t", tool="x", inputs={"v": ["${a.output}"] * 9}), large)
        nested: Any = "${text.output}"
        for _ in range(200):
            nested = [nested]
        with pytest.raises(BadTask, match="nested more than 100 deep"):
            references(PlanTask(id="t", tool="x", inputs={"v": nested}), RESULTS)

    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.text(alphabet="${}ab.output \n", max_size=40))
    def test_what_was_put_in_is_never_read_again(self, said: str) -> None:
        given = {"a": result(said), "b": result("secret")}
        assert filled(PlanTask(id="t", description="<${a.output}>"), given).description == f"<{said}>"

    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.text(alphabet="${}ab.outps \n", max_size=40))
    def test_any_text_can_be_written_with_escapes(self, meant: str) -> None:
        given = {"a": result("x")}
        template = "-" + meant.replace("${", "$${")
        assert filled(PlanTask(id="t", description=template), given).description == "-" + meant


class TestArguments:
    def command(self, *argv: str) -> Any:
        task = PlanTask(id="t", command=argv)
        references(task, RESULTS)
        return filled(task, RESULTS).command

    def test_a_reference_is_one_argument_whatever_it_holds(self) -> None:
        assert self.command("grep", "${text.output}", "a b") == ("grep", "plain text", "a b")
        assert self.command("x", "--rows=${tool.structured.rows}") == ("x", "--rows=[1, 2]")

    def test_it_does_not_become_an_option(self) -> None:
        with pytest.raises(
            BadTask, match=r'command\.1: \$\{option\.output\} became an option, \'-rf\'; put a "--" before it'
        ):
            self.command("rm", "${option.output}")
        assert self.command("rm", "--", "${option.output}") == ("rm", "--", "-rf")
        assert self.command("rm", "-${option.output}", "./${option.output}") == ("rm", "--rf", "./-rf")

    def test_the_program_is_never_a_reference(self) -> None:
        with pytest.raises(BadTask, match="the program can't be a reference"):
            self.command("${text.output}", "x")
        with pytest.raises(BadTask, match="the program can't be a reference"):
            parse_plan({"task": [{"id": "text", "prompt": "x"}, {"id": "t", "command": ["bin/${text.output}"]}]})

    def test_a_nul_character_is_refused(self) -> None:
        with pytest.raises(BadTask, match="holds a NUL character"):
            filled(PlanTask(id="t", command=("x", "${a.output}")), {"a": result("a\0b")})


def test_every_plan_of_the_guide_is_valid() -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 3
    for block in blocks:
        assert isinstance(parse_plan(tomllib.loads(block)), Plan)
