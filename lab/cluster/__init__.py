"""A real Kubernetes cluster on one machine, as root: control plane, and nodes with a kubelet and containerd each.

    with cluster.up(nodes=2) as c:
        c.kube.admin.apply(pods.pod("hello", ["python3", "-c", "print('hello')"]))

Real nodes, because what glowplug does on a node (a DaemonSet before other pods, hostPath, `subPathExpr`, taints, probes, a
container restarted in its pod) is decided by kubelet and a container runtime, and by nothing that could be written here.

What a cluster is made of, outermost first:

    harness ── keeper ─┬ world: namespaces with the control plane and a bridge ("wire"), no route to the outside
                       └ node-1, node-2 …: namespaces within the world, each with its own /var, /mnt, /opt, /tmp and /run

Everything in a namespace ends with the pipe that its first process reads (`spaces`), so that a SIGKILL of whoever comes before
it ends it too. What the kernel does not remove by itself is: control groups, one link, one directory. They carry the cluster's
name, by which `leftovers` finds and removes them, and nothing else. The machine's own kernel settings are never changed.

`keeper` guards, `world` and `machine` are the first processes of the two kinds of namespaces, `control` runs the control
plane, `network` says who has which address, `cgroups` and `images` are what their names say, `pods` writes pods, `ability` tries
whether the machine could hold a cluster at all.
"""

from lab.cluster.harness import GPU, Cluster, Node, Shape, build, missing, unbuilt, up

__all__ = ["GPU", "Cluster", "Node", "Shape", "build", "missing", "unbuilt", "up"]
