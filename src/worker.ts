/** The workers alone; any number of them. */
import { runUntilSignal } from './process.ts';

await runUntilSignal({ embedded: false, worker: true, api: false });
