/** Why Holdfast could not start on its Temporal server. Stable: scripts and the docs refer to these codes. */
export type StartErrorCode =
  /** A port that was asked for is taken. */
  | 'port-in-use'
  /** A port that was asked for may not be opened by this user, or is no port. */
  | 'port-not-allowed'
  /** Another live Holdfast, or a Temporal server of somebody else, uses the data folder. */
  | 'data-dir-in-use'
  /** The data folder cannot be made, or not be written. */
  | 'data-dir-unwritable'
  /** No Temporal server binary was found, nor could one be fetched. */
  | 'server-not-found'
  /** The server ended while it started. */
  | 'server-exited'
  /** The server did not answer within the bound. */
  | 'server-start-timeout'
  /** This server's operator service may not be used with these credentials. */
  | 'search-attributes-denied'
  /** A search attribute exists with another type than Holdfast's. */
  | 'search-attribute-type'
  /** The server did not list, or not take, the search attributes. */
  | 'search-attributes-failed'
  /** No Temporal answers where one should run. */
  | 'temporal-unreachable'
  /** The file of API keys is missing or wrong. */
  | 'keys-unusable'
  /** The links in events need a base address, and none is known. */
  | 'public-url-missing';

/** Start-up refused, with a code that stays and a message for the person who starts it. Nothing was harmed. */
export class HoldfastStartError extends Error {
  override readonly name = 'HoldfastStartError';
  readonly code: StartErrorCode;

  constructor(code: StartErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
