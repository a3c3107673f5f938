"""A composed tool's file: metadata blocks, names, versions."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.composer import BadName, ComposeRefused
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.toolfile import Example, RecordedCall, check_name
from tests.composer.conftest import DOUBLE
from tests.support.rows import each


def refusal(source: str | bytes) -> str:
    with pytest.raises(ComposeRefused) as caught:
        toolfile.read(source)
    return "; ".join(caught.value.problems)


class TestMetadata:
    def test_all_of_it(self) -> None:
        file = toolfile.read(
            '# /// tool\n# name = "t"\n# version = 7\n# requires = ["a.b", "c.*"]\n# limits = { timeout_s = 2, '
            "cpu_s = 1.5 }\n"
            "# [[examples]]\n# inputs = { n = 1 }\n# result = [1, 2]\n# ///\n"
            '# /// examples\n# {"inputs": {"n": null}, "error": "no", "calls": [{"tool": "a.b", "result": '
            "null}]}\n# ///\nx = 1\n"
        )
        assert (file.name, file.metadata.version, file.metadata.requires) == ("t", 7, ["a.b", "c.*"])
        assert file.metadata.limits == {"timeout_s": 2, "cpu_s": 1.5}
        assert file.metadata.examples == [
            Example(inputs={"n": 1}, result=[1, 2]),
            Example(inputs={"n": None}, error="no", calls=[RecordedCall(tool="a.b")]),
        ]

    @each(
        ("source", "said"),
        [
            ("x = 1", "it has no metadata"),
            ('# /// tool\n# name = "a"\n# ///\n# /// tool\n# name = "b"\n# ///\n', "two `# /// tool` blocks"),
            ("# /// tool\n# name = \n# ///\n", "not valid TOML"),
            ("# /// tool\n# version = 1\n# ///\n", "`name` in its metadata: it is required"),
            ('# /// tool\n# name = "a"\n# colour = "red"\n# ///\n', "`colour` in its metadata"),
            ('# /// tool\n# name = "a"\n# limits = { memory = 1 }\n# ///\n', "there is no such limit"),
            ('# /// tool\n# name = "a"\n# requires = ["a b"]\n# ///\n', "grants nothing"),
            (
                '# /// tool\n# name = "a"\n# ///\n# /// examples\n# nope\n# ///\n',
                "line 1 of its `/// examples` block is not JSON",
            ),
            ('# /// tool\n# name = "a"\n# ///\n# /// examples\n# {"input": {}}\n# ///\n', "`examples.0.input`"),
            (b"\xff\xfe# /// tool", "not UTF-8"),
            (b"#" * 600_000, "at most"),
            (f'# /// tool\n# name = "a"\n# x = {"[" * 5000}\n# ///\n', "TOML"),
        ],
    )
    def test_what_is_wrong_is_said(self, source: str | bytes, said: str) -> None:
        assert said in refusal(source)


@pytest.mark.parametrize(
    "source",
    [
        "# /// tool\n" * 40_000,
        '# /// tool\n# name = "a"\n# ///\n' + "# /// examples\n# " + "1 " * 200_000 + "\n# ///\n",
        '# /// tool\n# name = "a"\n# ///\n' + "# /// examples\n" + "#\n" * 200_000,
    ],
)
def test_long_files_are_read_in_one_pass(source: str) -> None:
    """What would take minutes if each line were looked at again for each line."""
    with contextlib.suppress(ComposeRefused):
        toolfile.read(source)


class TestNames:
    @pytest.mark.parametrize("name", ["a", "triage", "a1_b2", "x" * 64])
    def test_good(self, name: str) -> None:
        assert check_name(name) == name

    @each(
        "name",
        [
            "",
            "A",
            "1a",
            "_a",
            "a-b",
            "a.b",
            "../a",
            "a/b",
            "/etc/passwd",
            "a\0",
            "a\n",
            "é",
            "ａ",
            "x" * 65,
            "import",
            "con.py",
            ".a",
            " a",
        ],
    )
    def test_bad(self, name: str) -> None:
        with pytest.raises(BadName, match="can't be the name of a composed tool"):
            check_name(name)

    @given(st.text())
    def test_no_name_leaves_the_store(self, name: str) -> None:
        try:
            check_name(name)
        except BadName:
            return
        assert name.isidentifier()
        assert name.isascii()
        assert name == name.lower()
        assert "/" not in name


class TestVersions:
    def test_the_version_is_not_part_of_what_a_tool_is(self) -> None:
        plain = toolfile.read(DOUBLE)
        third = plain.with_version(3)
        assert third.digest == plain.digest
        assert '# name = "double"\n# version = 3\n' in third.source
        assert third.with_version(4).source == third.source.replace("version = 3", "version = 4")
        assert toolfile.read(third.source).metadata.version == 3

    def test_other_content_is_another_tool(self) -> None:
        assert toolfile.read(DOUBLE).digest != toolfile.read(DOUBLE.replace("Twice", "Two times")).digest

    def test_multi_line_values_stay_whole(self) -> None:
        file = toolfile.read('# /// tool\n# requires = [\n#   "a.b",\n# ]\n# name = "a"\n# ///\n')
        assert file.with_version(5).metadata.requires == ["a.b"]

    def test_windows_line_ends(self) -> None:
        assert toolfile.read(DOUBLE.replace("\n", "\r\n")).digest == toolfile.read(DOUBLE).digest


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.builds(
            Example,
            inputs=st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=10), max_size=3),
            result=st.none() | st.lists(st.text(max_size=10), max_size=3),
            calls=st.lists(st.builds(RecordedCall, tool=st.just("a.b"), result=st.text(max_size=10)), max_size=2),
        ),
        max_size=3,
    )
)
def test_what_is_written_is_read(examples: list[Example]) -> None:
    source = toolfile.write("made", "x = 1\n", limits={"timeout_s": 1.5}, examples=examples)
    file = toolfile.read(source)
    assert file.metadata.examples == examples
    assert file.metadata.limits == {"timeout_s": 1.5}


def test_odd_line_ends_inside_json() -> None:
    example = Example(inputs={"a": "x\u2028y\x85z\x0b"}, result="\u2029")
    assert toolfile.read(toolfile.write("made", "", examples=[example])).metadata.examples == [example]
