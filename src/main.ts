/** All in one: Temporal (embedded, or the one that the environment names), worker and facade. */
import { runUntilSignal } from './process.ts';

await runUntilSignal({ embedded: true, worker: true, api: true });
