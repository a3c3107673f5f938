import re

TEXT = "See [the docs](https://example.com/docs) and [issue 7](/issues/7), or call *us* on **Monday**."


def link(match):
    label, target = match.groups()
    return f'<a href="{target}">{label.upper()}</a>'


html = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", link, TEXT)
html = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html)
html, italics = re.subn(r"\*(.+?)\*", r"<i>\1</i>", html)
result = [html, italics, re.split(r"[,;]\s*", "a, b;c")]
