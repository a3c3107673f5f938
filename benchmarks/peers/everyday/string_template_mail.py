from string import Template, ascii_lowercase, capwords

mail = Template("Dear $name,\nyour order $$${amount} ships on ${day}.")
people = [{"name": "Ann", "amount": "12.50", "day": "Monday"}, {"name": "Bob", "amount": "3.00"}]
letters = [mail.safe_substitute(person) for person in people]
try:
    mail.substitute(people[1])
except KeyError as error:
    missing = error.args[0]
shifted = str.maketrans(ascii_lowercase, ascii_lowercase[3:] + ascii_lowercase[:3])
result = [letters, missing, "hello".translate(shifted), capwords("the end of it"), "{:>8.2f}|{:<5}|{!r}".format(3.14159, "ab", "x")]
