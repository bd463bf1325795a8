import type { Log } from '../../src/temporal/server-binary.ts';

const nothing = (): void => undefined;

export const silentLog: Log = { info: nothing, warn: nothing, error: nothing };
