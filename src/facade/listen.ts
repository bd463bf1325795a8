import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Express } from 'express';
import { refuseClient } from './problem.ts';

/** Explicit, so that slow and dripping clients are cut off whatever Node's defaults are. All in ms. */
const TIMEOUT_MS = { headers: 10_000, request: 30_000, keepAlive: 5_000 } as const;
const HEADER_BYTES_MAX = 16 * 1024;
const CONNECTIONS_CHECK_MS = 1_000;
const DRAIN_MS = 2_000;

export interface Listening {
  url: string;
  /** Takes no more connections, lets answers under way finish within 2 s, then cuts the rest. */
  close(): Promise<void>;
}

/** Listens; rejects with Node's error when it cannot (a port that is taken, `EADDRINUSE`). */
export async function listen(app: Express, { host, port }: { host: string; port: number }): Promise<Listening> {
  const server = createServer(
    {
      headersTimeout: TIMEOUT_MS.headers,
      requestTimeout: TIMEOUT_MS.request,
      keepAliveTimeout: TIMEOUT_MS.keepAlive,
      connectionsCheckingInterval: CONNECTIONS_CHECK_MS,
      maxHeaderSize: HEADER_BYTES_MAX,
    },
    app,
  );
  server.on('clientError', refuseClient);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port }, resolve);
  });
  const { port: bound } = server.address() as AddressInfo;
  return { url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`, close: () => close(server) };
}

async function close(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  server.closeIdleConnections();
  const cut = setTimeout(() => server.closeAllConnections(), DRAIN_MS);
  await closed;
  clearTimeout(cut);
}
