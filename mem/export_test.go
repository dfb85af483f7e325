package mem

// InUse returns how many bytes a resource of NewLimit has handed out, each buffer rounded up to 256.
func InUse(r Resource) int64 { return r.(*limit).inUse.Load() }
