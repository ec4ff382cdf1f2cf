"""Texts that the help of several commands ends with."""

EXIT_CODES = """
Exit codes: 0 done; 1 failed (stderr says why); 2 wrong usage or a malformed URI; 3 a name or a file was not found;
4 no connection, or no answer in time; 5 the data was truncated or changed on the way; 130 interrupted; 141 the program
that reads the output ended first, as in `| head`.
"""


TOKEN = """
Environment: CROSSDOCK_TOKEN is the secret that a server may require over tcp, tcp+tls, ucx, fabric and Flight.
Clients prove that they know it; by Flight they send it. CROSSDOCK_LOGIN is a user name and a password, as in
ada:PASSWORD, for Flight servers that require a login.
"""


HTTP_ADDRESS = (
    "ADDRESS is PORT (on the loopback), HOST:PORT, [::1]:PORT or *:PORT (every address of this machine); port 0 picks "
    "a free port"
)
