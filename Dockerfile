# One build of two static programs, and images of them:
#
#   docker build --target vmcp .             the server, its command line and the bridge
#   docker build --target vmcp-with-model .  the same, and the local embedding model in a layer of its own
#   docker build --target operator .         the operator, and the server by which it checks policies
#
# For another platform, build on it or under emulation (`--platform linux/arm64`).

# Where it is built: with Rust and, unless apt can install it, musl-gcc.
ARG BUILD_IMAGE=rust:1.95-bookworm
# The base of the images: the programs need nothing below them.
ARG RUNTIME_IMAGE=scratch

FROM ${BUILD_IMAGE} AS build
# `image-test` builds in a fraction of the time, for tests.
ARG CARGO_PROFILE=release
# The profile keeps symbols, and only the server strips itself.
ENV CARGO_PROFILE_RELEASE_STRIP=symbols
# amd64 or arm64; the platform of the build unless given.
ARG TARGETARCH
WORKDIR /src
RUN command -v musl-gcc >/dev/null || { \
      apt-get update && apt-get install --yes --no-install-recommends musl-tools ca-certificates && \
      rm -rf /var/lib/apt/lists/*; }
COPY . .
# Both caches are kept between builds, so what is to be copied out of them is put into a layer at once.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    set -eu; \
    case "${TARGETARCH:-$(uname -m)}" in \
      amd64 | x86_64) target=x86_64-unknown-linux-musl ;; \
      arm64 | aarch64) target=aarch64-unknown-linux-musl ;; \
      *) echo "no target for ${TARGETARCH}" >&2; exit 1 ;; \
    esac; \
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || rustup target add "$target"; \
    cargo build --locked --profile "$CARGO_PROFILE" --target "$target" --target-dir /src/target \
      --package vmcp --package vmcp-operator; \
    mkdir -p /out; \
    cp "/src/target/$target/$CARGO_PROFILE/vmcp" "/src/target/$target/$CARGO_PROFILE/vmcp-operator" /out/

FROM build AS model
# As in `vmcp model pull --from`.
ARG MODEL_SOURCE=auto
# The model of `optimizer.embeddings.local.model`.
ARG MODEL=all-MiniLM-L6-v2
RUN XDG_CACHE_HOME=/model /out/vmcp model pull "$MODEL" --from "$MODEL_SOURCE"

FROM ${RUNTIME_IMAGE} AS vmcp
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/vmcp /vmcp
USER 65532:65532
ENTRYPOINT ["/vmcp"]
CMD ["serve", "--config", "/etc/vmcp/config/vmcp.yaml"]

# On the image of the server, whose layers nodes have anyway: the operator checks policies by `/vmcp`.
FROM vmcp AS operator
COPY --from=build /out/vmcp-operator /vmcp-operator
ENTRYPOINT ["/vmcp-operator"]
CMD []

FROM vmcp AS vmcp-with-model
# Where vmcp looks for the model; it need not be writable.
ENV XDG_CACHE_HOME=/var/cache
COPY --from=model /model/vmcp/models /var/cache/vmcp/models
