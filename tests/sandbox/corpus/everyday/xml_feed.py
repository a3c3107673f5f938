# expect: [[{"id": 1, "title": "First", "score": 10, "lang": "en"}, {"id": 2, "title": "Second & last", "score": 7, "lang": "?"}], "<summary count=\"2\">done</summary>", "<note>a &lt; b</note>", 1, "&lt;&amp;&gt;"]
import xml.etree.ElementTree as ET
from xml.sax.saxutils import escape

FEED = """<?xml version="1.0"?>
<feed><title>News</title>
  <entry id="1" lang="en"><title>First</title><score>10</score></entry>
  <entry id="2"><title>Second &amp; last</title><score>7</score></entry>
</feed>"""

root = ET.fromstring(FEED)
entries = [
    {"id": int(entry.get("id")), "title": entry.findtext("title"), "score": int(entry.find("score").text), "lang": entry.attrib.get("lang", "?")}
    for entry in root.iter("entry")
]
for entry in root.findall("./entry[@id='2']"):
    entry.set("read", "yes")
    ET.SubElement(entry, "note").text = "a < b"

element = ET.Element("summary", count=str(len(entries)))
element.text = "done"
try:
    ET.fromstring("<a><b></a>")
except ET.ParseError as error:
    line = error.position[0]
[entries, ET.tostring(element, encoding="unicode"), ET.tostring(root.find("entry[2]/note"), encoding="unicode").strip(), line, escape("<&>")]
