# expect: ["Weekly report", ["Ann Doe", "ann@example.org"], ["bob", "eve"], "multipart/mixed", ["numbers.csv"], "Numbers attached.\n", "3", "body text"]
from email.message import EmailMessage
from email.parser import Parser
from email.utils import formataddr, parseaddr

message = EmailMessage()
message["Subject"] = "Weekly report"
message["From"] = formataddr(("Ann Doe", "ann@example.org"))
message["To"] = "bob@example.org, eve@example.org"
message.set_content("Numbers attached.\n")
message.add_attachment(b"a,b\n1,2\n", maintype="text", subtype="csv", filename="numbers.csv")

parsed = Parser().parsestr("Subject: Hi\nX-Level: 3\n\nbody text\n")
attachments = [part.get_filename() for part in message.iter_attachments()]
[
    message["Subject"],
    parseaddr(message["From"]),
    [address.username for address in message["To"].addresses],
    message.get_content_type(),
    attachments,
    message.get_body().get_content(),
    parsed["x-level"],
    parsed.get_payload().strip(),
]
