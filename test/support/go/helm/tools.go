//go:build tools

// Names the program whose version go.mod pins: helm itself, as its own module builds it.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
