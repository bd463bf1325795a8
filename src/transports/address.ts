import ipaddr from 'ipaddr.js';

/** public: anybody's · private: reachable from here only, so a route must ask for it · never: no receiver is there. */
export type AddressKind = 'public' | 'private' | 'never';

/**
 * What an operator may mean by a private receiver. Link-local is not among it: that is where clouds keep the
 * credentials of the machine. Whatever this list lacks (reserved, tunnelled, translated, multicast) is refused.
 */
const PRIVATE_RANGES: ReadonlySet<string> = new Set(['loopback', 'private', 'uniqueLocal', 'carrierGradeNat']);

/** All that is assigned for global unicast in IPv6; `::127.0.0.1` and its like lie outside it. */
const GLOBAL_IPV6 = ipaddr.parseCIDR('2000::/3');

/** Judges an address in its written form. What is no address in its plain form is `never`. */
export function addressKindOf(text: string): AddressKind {
  // Not `isValid` alone: it takes `0x7f.1` and `2130706433`, which some resolvers hand through.
  if (!ipaddr.IPv4.isValidFourPartDecimal(text) && !ipaddr.IPv6.isValid(text)) return 'never';
  const address = ipaddr.process(text); // an IPv4 address mapped into IPv6 is judged as the former
  const range: string = address.range();
  if (PRIVATE_RANGES.has(range)) return 'private';
  if (range !== 'unicast') return 'never';
  return address.kind() === 'ipv4' || address.match(GLOBAL_IPV6) ? 'public' : 'never';
}

/** The address that a URL's host is, in plain form, or null for a name. Expects `URL.hostname`, which normalizes. */
export function literalAddressOf(hostname: string): string | null {
  if (hostname.startsWith('[')) return hostname.slice(1, -1);
  return ipaddr.IPv4.isValidFourPartDecimal(hostname) ? hostname : null;
}
