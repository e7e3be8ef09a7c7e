"""The data: the Oxford-IIIT Pet photos (Parkhi et al., Cats and Dogs, CVPR 2012), or the stand-in drawn for them.

Under a data folder, `datasets` unless told otherwise, the photos lie in `oxford-iiit-pet/` and the stand-in in
`stand-in/oxford-iiit-pet/`, so that the two never mix. Both have the layout that torchvision reads.
"""
