# expect: [2, 3, 42, true, 3, 0]
from unittest import mock


class Mailer:
    def __init__(self, transport):
        self._transport = transport

    def notify(self, people, text):
        sent = 0
        for person in people:
            if self._transport.send(to=person, body=text):
                sent += 1
        return sent


transport = mock.Mock()
transport.send.side_effect = [True, False, True]
mailer = Mailer(transport)
sent = mailer.notify(["a", "b", "c"], "hello")

transport.send.assert_called_with(to="c", body="hello")
with mock.patch.object(Mailer, "notify", return_value=42) as patched:
    faked = Mailer(None).notify([], "")

magic = mock.MagicMock()
magic.__len__.return_value = 3
[sent, transport.send.call_count, faked, patched.called, len(magic), mailer.notify([], "")]
