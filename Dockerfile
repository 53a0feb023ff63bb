# glowplug's image, one for everything: the agent of node and shared mode, and the init container of direct mode.
#
#     docker build -t REGISTRY/glowplug:0.1.0 --push --platform linux/amd64,linux/arm64 .
#     docker build --target client …      direct mode's init container alone: no base image, the client and a shell
#     make image                          the same files without Docker, on this machine's own Python: build/glowplug-image.tar
#
# `make image` reads the stages that become images here, so nothing is listed twice. The stages before them run on the builder's
# own kind of machine: wheels for the other kind are fetched, not built, and Go builds for either.

ARG GO=docker.io/library/golang:1.26
ARG PYTHON=docker.io/library/python:3.13-slim
# What engines' images have beside that one. Their interpreters only compile: a pod whose Python has bytecode here starts faster.
ARG PYTHON310=docker.io/library/python:3.10-slim
ARG PYTHON311=docker.io/library/python:3.11-slim
ARG PYTHON312=docker.io/library/python:3.12-slim

FROM --platform=$BUILDPLATFORM ${GO} AS box
ARG TARGETARCH
WORKDIR /src
COPY dev/box/ ./
RUN CGO_ENABLED=0 GOOS=linux GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -ldflags "-s -w" -o /out/box .

FROM --platform=$BUILDPLATFORM ${PYTHON310} AS python310
FROM --platform=$BUILDPLATFORM ${PYTHON311} AS python311
FROM --platform=$BUILDPLATFORM ${PYTHON312} AS python312

FROM --platform=$BUILDPLATFORM ${PYTHON} AS packed
ARG TARGETARCH
COPY --from=python310 /usr/local /opt/python3.10
COPY --from=python311 /usr/local /opt/python3.11
COPY --from=python312 /usr/local /opt/python3.12
ENV PATH=$PATH:/opt/python3.10/bin:/opt/python3.11/bin:/opt/python3.12/bin
# One that does not run would be left out without a word.
RUN for version in 3.10 3.11 3.12; do "python$version" -c "import zlib" || exit 1; done
WORKDIR /src
COPY pyproject.toml ./
COPY requirements/dev.txt requirements/image.txt requirements/
COPY dev/ dev/
COPY src/ src/
RUN python -m dev.client --machine "$TARGETARCH" && python -m dev.agent --machine "$TARGETARCH"

# No base: a static shell and `cp` are all that an init container needs, so there is nothing else to scan or to update.
FROM scratch AS client
COPY --from=box /out/box /bin/sh
COPY --from=box /out/box /bin/cp
COPY --from=packed /src/build/client /opt/glowplug/client
COPY LICENSE dev/box/NOTICE /opt/glowplug/
ENV PATH=/bin
LABEL org.opencontainers.image.title="glowplug-client" \
      org.opencontainers.image.description="The client that pods of direct mode carry, and what copies it" \
      org.opencontainers.image.licenses="Apache-2.0 AND BSD-3-Clause AND MIT"
USER 65532:65532
WORKDIR /
CMD ["/bin/sh"]

# The interpreter is the one that `packed` ran on: bytecode and compiled wheels are for its version.
FROM ${PYTHON}
COPY --from=packed /src/build/client /opt/glowplug/client
COPY --from=packed /src/build/agent /opt/glowplug/agent
COPY LICENSE /opt/glowplug/
ENV PATH=/opt/glowplug/agent/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LABEL org.opencontainers.image.title="glowplug" \
      org.opencontainers.image.description="The agent of a node, and the client that pods of direct mode carry" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 65532:65532
WORKDIR /
CMD ["glowplug", "--help"]
