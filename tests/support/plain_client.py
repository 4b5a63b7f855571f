"""`python plain_client.py PORT`: a client in a process of its own, which takes no time from a test's node. Each line
that it reads names a file: it sends what that holds, reads to the end of the connection and tells the status."""

import contextlib
import socket
import sys


def main() -> None:
    for line in sys.stdin:
        with open(line.strip(), "rb") as file:
            request = file.read()
        with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
            answer = b""
            with contextlib.suppress(OSError):  # the node has answered before it had read all
                connection.sendall(request)
            with contextlib.suppress(OSError):
                while part := connection.recv(1 << 20):
                    answer = answer or part
        sys.stdout.write(f"{answer[9:12].decode()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
