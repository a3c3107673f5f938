# expect: [[[1, "Top & first"], [2, "Second"]], ["/a?b=1", "#end"], "&lt;a b=&#x27;c&#x27;&gt;", "<éA"]
from html import escape, unescape
from html.parser import HTMLParser

PAGE = """<html><body><h1>Top &amp; first</h1><p class="x">Text <a href="/a?b=1">link</a></p>
<h2>Second</h2><img src=pic.png><a href='#end'>end</a></body></html>"""


class Outline(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.headings, self.links, self._open = [], [], None

    def handle_starttag(self, tag, attrs):
        if tag in ("h1", "h2"):
            self._open = tag
        elif tag == "a":
            self.links.append(dict(attrs).get("href"))

    def handle_data(self, data):
        if self._open:
            self.headings.append((int(self._open[1]), data))

    def handle_endtag(self, tag):
        if tag == self._open:
            self._open = None


outline = Outline()
outline.feed(PAGE)
outline.close()
[outline.headings, outline.links, escape("<a b='c'>"), unescape("&lt;&eacute;&#65;")]
