# expect: refused
# line: 6
# kind: PolicyRefusal
def walk(generator):
    match generator:
        case object(gi_frame=object(f_globals=names)):
            return names
