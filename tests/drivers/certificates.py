"""Certificates that a test makes for itself, by `openssl`: an authority, what it signs, revokes and lets expire."""

import pathlib
import subprocess

CONFIG = """
[ca]
default_ca = own
[own]
dir = {directory}
database = {directory}/index
serial = {directory}/serial
crlnumber = {directory}/crlnumber
new_certs_dir = {directory}
certificate = {directory}/ca.pem
private_key = {directory}/ca.key
default_md = sha256
default_days = 30
default_crl_days = 30
policy = any
unique_subject = no
copy_extensions = copy
[any]
countryName = optional
stateOrProvinceName = optional
localityName = optional
organizationName = optional
organizationalUnitName = optional
commonName = optional
emailAddress = optional
[req]
distinguished_name = dn
prompt = no
[dn]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical, CA:FALSE
"""


class Authority:
    """A certificate authority in a directory of its own."""

    def __init__(self, directory, name="Test Authority"):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.config = self.directory / "openssl.cnf"
        self.config.write_text(CONFIG.format(directory=self.directory))
        (self.directory / "index").touch()
        (self.directory / "serial").write_text("1000\n")
        (self.directory / "crlnumber").write_text("1000\n")
        self.file = self.directory / "ca.pem"
        self.lists = self.directory / "crl.pem"
        key = self.directory / "ca.key"
        self.key(key)
        openssl("req", "-new", "-x509", "-config", self.config, "-extensions", "authority", "-key", key,
                "-subj", f"/O=Quarry/CN={name}", "-days", "30", "-out", self.file)

    @staticmethod
    def key(path):
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)

    def sign(self, name, subject, alternative=None, expired=False):
        """A PEM file with a key and its certificate; `subject` as in `/O=Quarry/CN=app`."""
        key, request, certificate = (self.directory / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
        self.key(key)
        extensions = ["-addext", f"subjectAltName={alternative}"] if alternative else []
        openssl("req", "-new", "-config", self.config, "-key", key, "-subj", subject, "-utf8", *extensions, "-out", request)
        dates = ["-startdate", "20200101000000Z", "-enddate", "20200102000000Z"] if expired else []
        openssl("ca", "-batch", "-notext", "-config", self.config, "-extensions", "leaf", "-preserveDN", "-utf8", *dates,
                "-in", request, "-out", certificate)
        both = self.directory / f"{name}.pem"
        both.write_text(certificate.read_text() + key.read_text())
        return both

    def server(self, name="server"):
        """A certificate for a server on this machine."""
        return self.sign(name, f"/O=Quarry/CN={name}", "DNS:localhost,IP:127.0.0.1")

    def revoke(self, name):
        openssl("ca", "-config", self.config, "-revoke", self.directory / f"{name}.crt")

    def write_list(self):
        """A PEM file with the list of what has been revoked until now."""
        openssl("ca", "-config", self.config, "-gencrl", "-out", self.lists)
        return self.lists


def openssl(*arguments):
    run = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == 0, f"openssl {arguments}: {run.stderr}"
