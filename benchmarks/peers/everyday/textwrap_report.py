import textwrap

LOREM = "A report is made of paragraphs, and each paragraph is wrapped to a width that a person can read with ease."
wrapped = textwrap.wrap(LOREM, width=32)
block = textwrap.dedent("""\
    first
      second
    third
""")
result = [wrapped, block, textwrap.indent("a\nb", "> "), textwrap.shorten(LOREM, 40, placeholder="...")]
