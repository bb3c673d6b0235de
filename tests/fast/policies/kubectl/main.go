// Reads manifests with kubectl's own reader and prints what it makes of each: the measurement behind readings.json.
//
// Standard input is a JSON list of manifests, each in base64. Standard output is a JSON list: the objects that kubectl
// would send, its error, and whether a second run reads something else.
package main

import (
	"encoding/base64"
	"encoding/json"
	"log"
	"os"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

const runs = 20

type reading struct {
	Objects   []any  `json:"objects"`
	Error     string `json:"error,omitempty"`
	Undefined bool   `json:"undefined,omitempty"`
}

func read(file string) reading {
	found := reading{Objects: []any{}}
	infos, err := resource.NewLocalBuilder().Unstructured().ContinueOnError().
		FilenameParam(false, &resource.FilenameOptions{Filenames: []string{file}}).Flatten().Do().Infos()
	if err != nil {
		found.Error = err.Error()
	}
	for _, info := range infos {
		if object, ok := info.Object.(*unstructured.Unstructured); ok {
			found.Objects = append(found.Objects, object.Object)
		} else {
			found.Error = "not an object: " + reflect.TypeOf(info.Object).String()
		}
	}
	return found
}

func main() {
	var manifests []string
	if err := json.NewDecoder(os.Stdin).Decode(&manifests); err != nil {
		log.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "readings")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	if err := os.Chdir(folder); err != nil {
		log.Fatal(err)
	}
	const file = "manifest.yaml"
	readings := make([]reading, 0, len(manifests))
	for _, manifest := range manifests {
		data, err := base64.StdEncoding.DecodeString(manifest)
		if err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			log.Fatal(err)
		}
		first := read(file)
		for again := 1; again < runs && !first.Undefined; again++ {
			first.Undefined = !reflect.DeepEqual(first.Objects, read(file).Objects)
		}
		readings = append(readings, first)
	}
	if err := json.NewEncoder(os.Stdout).Encode(readings); err != nil {
		log.Fatal(err)
	}
}
