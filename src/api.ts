/** The facade alone; any number of them. */
import { runUntilSignal } from './process.ts';

await runUntilSignal({ embedded: false, worker: false, api: true });
