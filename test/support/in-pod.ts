/** Settings of a process in a pod of this name. */
export const inPod = (name: string) => ({
  POD_NAMESPACE: 'tollgate',
  POD_NAME: name,
  POD_UID: `uid-of-${name}`,
})
