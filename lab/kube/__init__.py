"""A real Kubernetes API server on 127.0.0.1, for as long as a `with` block.

    with kube.serve() as server:
        server.admin.apply(document, dry_run=True)

A real one, because what matters about a manifest (a field that exists, a quantity that parses, an admission policy whose
expression compiles and refuses what it must) is decided by Kubernetes' own code and by nothing that could be written here.

`binaries` builds the commands, `certificates` makes what they trust each other by, `server` runs etcd and kube-apiserver,
`client` speaks to them. A scheduler, controllers and nodes can join: each is one more identity and one more process.
"""

from lab.kube.client import Answer, Client, RefusedError
from lab.kube.server import CRDS, Server, serve

__all__ = ["CRDS", "Answer", "Client", "RefusedError", "Server", "serve"]
