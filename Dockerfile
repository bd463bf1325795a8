# One image for every role: the command says which (docs/deploying.md). Without one it is the facade.
FROM node:20.20.2-bookworm-slim AS base
WORKDIR /app

FROM base AS build
COPY package.json package-lock.json ./
# No package needs its install script to work, and an image build should run no stranger's code that it can do without.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
COPY workflows ./workflows
COPY activities ./activities
RUN npm run build

FROM base AS packages
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts

FROM base
# The slim image has no root certificates, and the worker's connection to Temporal takes the system's for TLS.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ca-certificates \
  && rm -rf /var/lib/apt/lists/*
ENV NODE_ENV=production
COPY --from=packages /app/node_modules ./node_modules
# The worker bundles its workflows when it starts: their built files and node_modules are needed then, tsx is not.
COPY --from=build /app/dist ./dist
COPY package.json ./
USER node
EXPOSE 8080
STOPSIGNAL SIGTERM
# Of the facade; a worker has no port, so whoever runs one turns this off. Whether Temporal answers is /readyz, which is
# for balancers: restarting a facade does not bring Temporal back.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 8080}/livez`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/src/api.js"]
