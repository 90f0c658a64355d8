/**
 * Variables that begin as ours do and are somebody else's, who cannot be asked to leave them out.
 *
 * Kubernetes describes each Service of a namespace in the environment of each container: for one that is called
 * `kvtier-mp` that is KVTIER_MP_SERVICE_HOST, KVTIER_MP_SERVICE_PORT, KVTIER_MP_PORT_5555_TCP_ADDR, and KVTIER_MP_PORT
 * with an address such as tcp://10.0.0.1:5555. The last is the name of an option of ours; its value tells them apart.
 */
const SERVICE_NAMES = /_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/
const SERVICE_ADDRESS = /^(tcp|udp|sctp):\/\//

/** Of the installation, which may run in the same command as the start. */
const OF_THE_INSTALL: ReadonlySet<string> = new Set(['KVTIER_REQUIRE_NATIVE'])

/** Whether a variable is to be passed over. */
export function isForeign(name: string, value: string | undefined): boolean {
  if (OF_THE_INSTALL.has(name) || SERVICE_NAMES.test(name)) return true
  return name.endsWith('_PORT') && SERVICE_ADDRESS.test(value ?? '')
}
