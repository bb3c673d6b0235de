module agent-environment/rehearsal/tools/karpenter

go 1.26

require github.com/aws/karpenter-provider-aws v1.14.1
