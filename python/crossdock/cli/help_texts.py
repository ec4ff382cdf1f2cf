"""Texts that the help of several commands ends with."""

EXIT_CODES = """
Exit codes: 0 done; 1 failed (the error's name is on stderr); 2 wrong usage or a malformed URI; 3 the name or a file was
not found; 4 no connection, or out of time; 5 the data was truncated or changed on the way; 130 interrupted;
141 the reader of the output ended first, as in `| head`.
"""


TOKEN = """
Environment: CROSSDOCK_TOKEN is the secret that servers ask for over tcp, tcp+tls, ucx, fabric and Flight, and
clients prove to know (by Flight, they send it). CROSSDOCK_LOGIN, as in ada:PASSWORD, is for Flight servers that have
logins.
"""


HTTP_ADDRESS = (
    "PORT (of the loopback), HOST:PORT, [::1]:PORT or *:PORT (every address of the machine); port 0 is a free one"
)
