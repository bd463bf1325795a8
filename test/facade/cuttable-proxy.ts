import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** A TCP proxy that stands for the way to a server, and can be cut. */
export interface CuttableProxy {
  /** `host:port` to connect to instead. */
  address: string;
  /** Ends every connection and refuses new ones. */
  cut(): Promise<void>;
  /** Keeps connections open and carries nothing, as a network does that drops packets. */
  stall(): void;
  /** Carries on after either. */
  restore(): Promise<void>;
  close(): Promise<void>;
}

interface Pair {
  near: Socket;
  far: Socket;
}

export async function startCuttableProxy(target: string): Promise<CuttableProxy> {
  const { hostname, port: targetPort } = new URL(`tcp://${target}`);
  const pairs = new Set<Pair>();
  let stalled = false;

  const carry = ({ near, far }: Pair): void => {
    near.pipe(far);
    far.pipe(near);
  };
  const server = createServer((near) => {
    const pair = { near, far: connect(Number(targetPort), hostname) };
    const end = (): void => {
      pairs.delete(pair);
      near.destroy();
      pair.far.destroy();
    };
    pairs.add(pair);
    for (const socket of [near, pair.far]) socket.on('error', end).on('close', end);
    if (!stalled) carry(pair);
  });
  const listenAt = async (port: number): Promise<void> =>
    new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, '127.0.0.1', () => {
        server.off('error', reject);
        resolve();
      });
    });

  await listenAt(0);
  const { port } = server.address() as AddressInfo;
  const cut = async (): Promise<void> => {
    const closed = new Promise((resolve) => {
      server.close(resolve);
    });
    for (const { near, far } of pairs) {
      near.destroy();
      far.destroy();
    }
    await closed;
  };
  return {
    address: `127.0.0.1:${port}`,
    cut,
    stall: () => {
      stalled = true;
      for (const { near, far } of pairs) {
        near.unpipe(far).pause();
        far.unpipe(near).pause();
      }
    },
    restore: async () => {
      stalled = false;
      for (const pair of pairs) carry(pair);
      if (!server.listening) await listenAt(port);
    },
    close: async () => {
      if (server.listening) await cut();
    },
  };
}
