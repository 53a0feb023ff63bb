# glowplug's image: what the init container of direct mode copies into a pod, and the shell and `cp` that it does it with.
#
#     docker build -t REGISTRY/glowplug:0.1.0 --push --platform linux/amd64,linux/arm64 .
#     make image          the same files without Docker: build/glowplug-image.tar, an OCI archive
#
# `make image` reads the last stage here, so nothing is listed twice. The stages before it run on the builder's own kind of
# machine: wheels for the other kind are fetched, not built, and Go builds for either.

ARG GO=docker.io/library/golang:1.26
ARG PYTHON=docker.io/library/python:3.13-slim

FROM --platform=$BUILDPLATFORM ${GO} AS box
ARG TARGETARCH
WORKDIR /src
COPY dev/box/ ./
RUN CGO_ENABLED=0 GOOS=linux GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -ldflags "-s -w" -o /out/box .

FROM --platform=$BUILDPLATFORM ${PYTHON} AS client
ARG TARGETARCH
WORKDIR /src
COPY pyproject.toml ./
COPY requirements/dev.txt requirements/
COPY dev/ dev/
COPY src/ src/
RUN python -m dev.client --machine "$TARGETARCH"

# No base: a static shell and `cp` are all that an init container needs, so there is nothing else to scan or to update.
FROM scratch
COPY --from=box /out/box /bin/sh
COPY --from=box /out/box /bin/cp
COPY --from=client /src/build/client /opt/glowplug/client
COPY LICENSE dev/box/NOTICE /opt/glowplug/
ENV PATH=/bin
LABEL org.opencontainers.image.title="glowplug" \
      org.opencontainers.image.description="The client that pods of direct mode carry, and what copies it" \
      org.opencontainers.image.licenses="Apache-2.0 AND BSD-3-Clause AND MIT"
USER 65532:65532
WORKDIR /
CMD ["/bin/sh"]
