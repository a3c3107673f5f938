# expect: error
# line: 5
import io

io.FileIO("/etc/passwd").readall()
