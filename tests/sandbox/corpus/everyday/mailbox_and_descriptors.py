# expect: [["Hello", "Again"], 2, 4, "abcd", 4, true]
import email.message
import mailbox
import os
import tracemalloc

box = mailbox.mbox("letters.mbox")
for subject in ("Hello", "Again"):
    letter = email.message.EmailMessage()
    letter["Subject"] = subject
    letter.set_content("text")
    box.add(letter)
box.flush()
box.close()
folder = mailbox.Maildir("letters")
folder.add(letter)
assert len(folder) == 1

with open("data.txt", "w") as file:
    file.write("abcdef")
    file.flush()
    os.fsync(file.fileno())
os.truncate("data.txt", 4)
with open("data.txt") as file:
    size = os.fstat(file.fileno()).st_size

tracemalloc.start()
block = [0] * 1000
current, peak = tracemalloc.get_traced_memory()
tracemalloc.stop()
again = mailbox.mbox("letters.mbox")
[[letter["subject"] for letter in again], len(again), size, open("data.txt").read(), os.path.getsize("data.txt"), current >= 4000]
