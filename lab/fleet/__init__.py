"""What a user has on a cluster (`lab.cluster`): manifests as `glowplug render` prints them, real vLLM in their pods.

`image` is glowplug's own, `rendered` makes manifests run on the laboratory's nodes, `agents` and `starts` look at what runs from
outside, `stories` are the sequences of starts that tests judge and `make bench` shows, `card` stands for a GPU's name.
"""
