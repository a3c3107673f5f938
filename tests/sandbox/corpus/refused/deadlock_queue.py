# expect: error
import queue

queue.Queue().get()
